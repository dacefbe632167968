"""The flow engine: rates shared fairly over every link, from event to event."""

"""What all tests share: no deadline for one example, since the machine that runs them may be busy."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

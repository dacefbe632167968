"""The packet engine: every packet, acknowledgement, pause frame and credit of a fabric."""

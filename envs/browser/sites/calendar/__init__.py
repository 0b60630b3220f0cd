"""A calendar: meetings, guests, invitations and rooms."""

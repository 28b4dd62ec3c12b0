"""Links: several chats of one person go on in one conversation, by `/link` (`feature`).

The kernel asks for the links (`record.list_links`) and leads messages by them. Without this folder,
each chat goes on in its own conversation.
"""

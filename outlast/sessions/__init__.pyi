from outlast.sessions.sql_alchemy import SQLAlchemySession as SQLAlchemySession
from outlast.sessions.sqlite import SQLiteSession as SQLiteSession

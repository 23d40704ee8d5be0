from outlast.sessions.branches import AdvancedSQLiteSession as AdvancedSQLiteSession
from outlast.sessions.encrypted import EncryptedEnvelope as EncryptedEnvelope
from outlast.sessions.encrypted import EncryptedSession as EncryptedSession
from outlast.sessions.mongodb import MongoDBSession as MongoDBSession
from outlast.sessions.redis import RedisSession as RedisSession
from outlast.sessions.sql_alchemy import SQLAlchemySession as SQLAlchemySession
from outlast.sessions.sqlite import AsyncSQLiteSession as AsyncSQLiteSession
from outlast.sessions.sqlite import SQLiteSession as SQLiteSession

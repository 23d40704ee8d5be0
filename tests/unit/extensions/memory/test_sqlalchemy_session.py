from outlast.extensions.memory import sqlalchemy_session
from outlast.extensions.memory.sqlalchemy_session import SQLAlchemySession
from outlast.sessions import sql_alchemy


def test_the_name_is_that_of_its_adapter() -> None:
    assert SQLAlchemySession is sql_alchemy.SQLAlchemySession
    assert "SQLAlchemySession" in dir(sqlalchemy_session)

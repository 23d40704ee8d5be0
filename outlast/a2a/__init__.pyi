from outlast.a2a.protocol import AgentCard as AgentCard
from outlast.a2a.protocol import AgentInterface as AgentInterface
from outlast.a2a.remote import A2AError as A2AError
from outlast.a2a.remote import fetch_card as fetch_card
from outlast.a2a.tool import a2a_tool as a2a_tool

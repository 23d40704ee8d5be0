"""The types for `ShellTool(environment=...)`: where shell commands run."""

from typing import Literal, NotRequired, TypeAlias, TypedDict


class ShellToolLocalSkill(TypedDict):
    """A skill in a folder of the worker's machine.

    Attributes:
        name: the skill's name for the model.
        description: the skill's description for the model.
        path: the folder.
    """

    name: str
    description: str
    path: str


class ShellToolSkillReference(TypedDict):
    """A skill that the provider stores.

    Attributes:
        type: always `skill_reference`.
        skill_id: the provider's id of the skill.
        version: the version of the skill; default: the newest.
    """

    type: Literal["skill_reference"]
    skill_id: str
    version: NotRequired[str]


class ShellToolInlineSkillSource(TypedDict):
    """A skill's files as a ZIP archive in base64."""

    type: Literal["base64"]
    media_type: Literal["application/zip"]
    data: str


class ShellToolInlineSkill(TypedDict):
    """A skill with files that are sent in the request."""

    type: Literal["inline"]
    name: str
    description: str
    source: ShellToolInlineSkillSource


ShellToolContainerSkill: TypeAlias = ShellToolSkillReference | ShellToolInlineSkill
"""A skill that a container can use."""


class ShellToolContainerNetworkPolicyDomainSecret(TypedDict):
    """A secret that a container sends to one domain."""

    domain: str
    name: str
    value: str


class ShellToolContainerNetworkPolicyAllowlist(TypedDict):
    """A network policy that allows listed domains."""

    type: Literal["allowlist"]
    allowed_domains: list[str]
    domain_secrets: NotRequired[list[ShellToolContainerNetworkPolicyDomainSecret]]


class ShellToolContainerNetworkPolicyDisabled(TypedDict):
    """A network policy that allows no connections."""

    type: Literal["disabled"]


ShellToolContainerNetworkPolicy: TypeAlias = (
    ShellToolContainerNetworkPolicyAllowlist | ShellToolContainerNetworkPolicyDisabled
)
"""The network policy of a container."""


class ShellToolLocalEnvironment(TypedDict):
    """The worker's machine: an executor runs the commands."""

    type: Literal["local"]
    skills: NotRequired[list[ShellToolLocalSkill]]


class ShellToolContainerAutoEnvironment(TypedDict):
    """A container that the provider creates for the run."""

    type: Literal["container_auto"]
    file_ids: NotRequired[list[str]]
    memory_limit: NotRequired[Literal["1g", "4g", "16g", "64g"] | None]
    network_policy: NotRequired[ShellToolContainerNetworkPolicy]
    skills: NotRequired[list[ShellToolContainerSkill]]


class ShellToolContainerReferenceEnvironment(TypedDict):
    """A container that exists at the provider."""

    type: Literal["container_reference"]
    container_id: str


ShellToolHostedEnvironment: TypeAlias = (
    ShellToolContainerAutoEnvironment | ShellToolContainerReferenceEnvironment
)
"""A container of the provider where shell commands run."""
ShellToolEnvironment: TypeAlias = ShellToolLocalEnvironment | ShellToolHostedEnvironment
"""A place where shell commands run: the worker or a container."""

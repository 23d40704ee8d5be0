from outlast import *
from outlast.further_names import *
from outlast.tracing import *

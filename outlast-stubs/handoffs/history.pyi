from outlast import *
from outlast.further_names import *

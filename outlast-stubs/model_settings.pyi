from outlast import *

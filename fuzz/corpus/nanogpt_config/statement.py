import os
print('x')

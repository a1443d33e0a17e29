# The server runs on the host; what it takes and gives is checked by the schemas that it declares.
from stockade_tools import ToolError

print(get_sum(2, 3))
try:
    get_sum(2, "three")
except ToolError as error:
    print("refused:", error)
print("Chicago:", get_weather("Chicago")["conditions"])

import ast,pathlib,sys,collections
names={"k","m","d","k_r"}
tot=0
for p in sorted(pathlib.Path("src/gridveil").rglob("*.py")):
    t=ast.parse(p.read_text())
    n=[]
    for x in ast.walk(t):
        if isinstance(x,ast.Constant) and x.value in names and isinstance(x.value,str): n.append((x.lineno,repr(x.value)))
        elif isinstance(x,ast.Attribute) and x.attr in names: n.append((x.lineno,"."+x.attr))
        elif isinstance(x,ast.keyword) and x.arg in names: n.append((x.value.lineno,x.arg+"="))
    if n: print(p,len(n)); tot+=len(n)
print(tot)

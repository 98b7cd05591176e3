package rewrite
import ("testing";"strings";"time";"fmt";"os")
func TestZ(t *testing.T){
 size:=2<<20
 qs:=[]string{"SELECT 1"+strings.Repeat(", 1"+strings.Repeat("+-",31)+"1", size/70),"SELECT nextval('s')"+strings.Repeat(",1",size/2-20), "SELECT nextval('s')"+strings.Repeat(",$1::int",size/8-20),"SELECT nextval('s')"+strings.Repeat(",f()",size/4-20),"SELECT nextval('s')"+strings.Repeat(",1=1",size/4-20),"SELECT nextval('s')"+strings.Repeat(",a",size/2-20),"SELECT 1 FROM a"+strings.Repeat(",a",size/2-20), "INSERT INTO t VALUES (nextval('s'))"+strings.Repeat(",(1)",size/4-20),"SELECT nextval('s')"+strings.Repeat(",1::int",size/7-20)}
 var i int; fmt.Sscan(os.Getenv("I"),&i)
 q:=qs[i]
  s:=time.Now(); _,err:=parseTree(q); d:=time.Since(s)
  b,_:=os.ReadFile("/proc/self/status")
  for _,l:=range strings.Split(string(b),"\n") { if strings.HasPrefix(l,"VmHWM")||strings.HasPrefix(l,"VmRSS") { fmt.Print(l," ") } }
  fmt.Printf("%.30q  %v %v\n",q,d,err)
}

package rewrite
import ("testing";"strings";"time";"fmt")
func TestZ(t *testing.T){
 size:=2<<20
 for _,q:=range []string{"/*"+strings.Repeat("a b c + ",size/8)+"*/SELECT 1", strings.Repeat(strings.Repeat("/**/",64)+"\n",size/257)+"SELECT 1",strings.Repeat(strings.Repeat("/*",64)+strings.Repeat("*/",64)+"\n",size/257)+"SELECT 1",
  strings.Repeat("/**/",63)+"/*"+strings.Repeat("*",size-400)+"/ SELECT 1", "SELECT 1"+strings.Repeat(", 1"+strings.Repeat("+-",31)+"1", size/70),
  "SELECT nextval('s')"+strings.Repeat(",1",size/2-20), "SELECT nextval('s')"+strings.Repeat(",$1::int",size/8-20),strings.Repeat("SELECT nextval('s');",size/20),
 } {
  _,why:=depthOf([]byte(q),2000)
  s:=time.Now(); _,err:=parseTree(q); d:=time.Since(s)
  s=time.Now(); p,_:=New(Defaults()); p.Plan([]byte(q)); e:=time.Since(s)
  fmt.Printf("%.20q why=%d %v plan %v %v\n",q,why,d,e,err)
 }
}

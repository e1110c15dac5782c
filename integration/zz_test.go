package integration
import ("testing";"time";"millrace/task")
func TestZZ(t *testing.T){
	p := newPlace(t, 2*time.Second)
	s:=time.Now()
	at:=func(w string){ t.Logf("%v %s", time.Since(s), w)}
	p.server()
	at("server")
	c := p.connect()
	at("connect")
	older := p.worker("twin")
	at("older")
	younger := p.worker("twin")
	at("younger")
	older.wait()
	at("older ended")
	id := p.submit("true")
	at("submit")
	p.await(c, id, task.Finished)
	at("fin")
	younger.stop()
	at("stop")
	t.Log(older.said.String())
}

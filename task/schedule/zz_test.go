package schedule
import ("testing";"time";"millrace/task/job")
func BenchmarkZ(b *testing.B){ p,_:=Compile("x",job.Schedule{Cron:"*/5 * * * *",Timezone:"Europe/Berlin"},time.Time{}); at:=time.Date(2026,3,1,0,0,0,0,time.UTC); for b.Loop(){ p.Between(at, at.AddDate(1,0,0), 1000) } }
func BenchmarkD(b *testing.B){ p,_:=Compile("x",job.Schedule{Cron:"0 3 * * *",Timezone:"Europe/Berlin"},time.Time{}); at:=time.Date(2026,3,1,0,0,0,0,time.UTC); for b.Loop(){ p.Between(at, at.AddDate(1,0,0), 100) } }

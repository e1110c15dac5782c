//go:build linux

package promises

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
)

// counts is a program that prints numbers on both streams until a file tells it to end.
const counts = `n=0; until [ -e go ]; do n=$((n+1)); echo "out $n"; echo "err $n" >&2; sleep 0.05; done; echo "$n" > said; echo last; exit 3`

func outlives(p *harness.Place, shell string) birth.Submission {
	return birth.Submission{Spec: &job.Spec{Run: &job.Run{Dir: p.Dir, Shell: shell}, OnRestart: job.RestartAdopt}}
}

// wantAll checks that each line that the program has said is in the log once and in order.
func wantAll(p *harness.Place, id task.ID) {
	p.Helper()
	text, err := os.ReadFile(p.Path("said"))
	if err != nil {
		p.Fatal(err)
	}
	var said int
	if _, err := fmt.Sscan(string(text), &said); err != nil {
		p.Fatal(err)
	}
	var out, errs []string
	for _, line := range strings.Split(p.Run("task", "logs", string(id)), "\n") {
		switch {
		case strings.HasPrefix(line, "err "):
			errs = append(errs, line)
		default:
			out = append(out, line)
		}
	}
	if len(out) != said+1 || len(errs) != said || out[said] != "last" {
		p.Fatalf("%d and %d lines of %d, the last one %q", len(out), len(errs), said, out[len(out)-1])
	}
	for i := range said {
		if out[i] != fmt.Sprintf("out %d", i+1) || errs[i] != fmt.Sprintf("err %d", i+1) {
			p.Fatalf("line %d is %q and %q", i+1, out[i], errs[i])
		}
	}
}

func linesOf(p *harness.Place, c *client.Client, id task.ID) int {
	p.Helper()
	return strings.Count(printed(p, c, id), "\n")
}

// printed is what a task has printed so far, without the last line's end. It asks the log itself: who
// asks again and again would start as many programs.
func printed(p *harness.Place, c *client.Client, id task.ID) string {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), harness.Patience)
	defer cancel()
	var lines []string
	err := c.Output(ctx, id, false, func(batch output.Lines) error {
		for _, l := range batch.Lines {
			lines = append(lines, l.Text)
		}
		return nil
	})
	if err != nil {
		p.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// wantNothingKept checks that no folder of a kept process is left.
func wantNothingKept(p *harness.Place) {
	p.Helper()
	p.Until("nothing is left of it", func() bool {
		folders, _ := filepath.Glob(p.Path("kept/*.kept/*"))
		dirs, _ := filepath.Glob(p.Path("tmp/millrace-kept-*"))
		return len(folders) == 0 && len(dirs) == 0
	})
}

// A task goes on while its worker is restarted, by a signal and by force: one attempt, one
// epoch, each line once, and its exit code.
func TestAdopt(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	p.Server()
	c := p.Connect()
	worker := p.Worker("only", "--slots", "2", "--spool", "kept")
	id := p.SubmitAs(c, outlives(p, counts))
	p.Until("it prints", func() bool { return linesOf(p, c, id) > 5 })
	pids := harness.Survivors("MILLRACE_TASK=" + string(id))
	if len(pids) == 0 {
		t.Fatal("there is no process")
	}
	for _, end := range []func(){worker.Stop, func() { worker.Kill() }} {
		end()
		if len(harness.Survivors("MILLRACE_TASK="+string(id))) == 0 {
			t.Fatal("the process has ended with the worker")
		}
		worker = p.Worker("only", "--slots", "2", "--spool", "kept")
		seen := linesOf(p, c, id)
		p.Until("it goes on printing", func() bool { return linesOf(p, c, id) > seen+5 })
	}
	p.Write("go", "")
	wantCounted(p, c, id)
	if records := p.History(c, id); harness.Count(records, events.AttemptAdopted) != 2 || harness.Count(records, events.AttemptStarted) != 1 {
		t.Errorf("its history is %v", harness.Types(records))
	}
	worker.Stop()
}

// A process that ends while no worker is there has its end reported by the next one.
func TestAdoptWhatHasEnded(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	p.Server()
	c := p.Connect()
	worker := p.Worker("only", "--spool", "kept")
	id := p.SubmitAs(c, outlives(p, counts))
	p.Until("it prints", func() bool { return linesOf(p, c, id) > 5 })
	worker.Kill()
	p.Write("go", "")
	p.Until("it has ended", func() bool { return len(harness.Survivors("MILLRACE_TASK="+string(id))) == 0 })
	p.Worker("only", "--spool", "kept")
	wantCounted(p, c, id)
}

// wantCounted waits for the end of a task that counts: on its first attempt, with exit 3, with each
// line and record stored once, and nothing left of it.
func wantCounted(p *harness.Place, c *client.Client, id task.ID) {
	p.Helper()
	if ended := p.Await(c, id, task.Error); ended.Attempt != 1 || ended.Exit == nil || *ended.Exit != 3 {
		p.Errorf("attempt %d, exit %v", ended.Attempt, ended.Exit)
	}
	wantAll(p, id)
	wantNothingKept(p)
	p.Judge(c, map[task.ID]task.State{id: task.Error})
}

// A worker that comes back too late finds its process gone, before another worker has started the
// task.
func TestAdoptTooLate(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 5*time.Second)
	p.Server()
	c := p.Connect()
	worker := p.Worker("only", "--spool", "kept")
	id := p.SubmitAs(c, outlives(p, `trap "" TERM; echo $MILLRACE_ATTEMPT; echo x >> began; [ $MILLRACE_ATTEMPT != 1 ] || while :; do sleep 0.05; date +%s%N > alive; done`))
	p.Until("it prints", func() bool { return printed(p, c, id) == "1" })
	worker.Kill()
	p.Until("the process is gone", func() bool { return len(harness.Survivors("MILLRACE_TASK="+string(id))) == 0 })
	if n := harness.Count(p.History(c, id), events.AttemptStarted); n != 1 {
		t.Errorf("it was started %d times by then", n)
	}
	if text, err := os.ReadFile(p.Path("began")); err != nil || string(text) != "x\n" {
		t.Errorf("it began %q times, %v", text, err)
	}
	p.Until("it is declared lost", func() bool { return harness.Count(p.History(c, id), events.AttemptLost) == 1 })
	p.Worker("only", "--spool", "kept")
	if ended := p.Await(c, id, task.Finished); ended.Attempt != 2 {
		t.Errorf("attempt %d has finished it", ended.Attempt)
	}
	p.Until("what the first one had to say is kept", func() bool { return harness.Count(p.History(c, id), events.AttemptLate) == 1 })
	wantNothingKept(p)
	p.Judge(c, map[task.ID]task.State{id: task.Finished})
}

// A task that is cancelled while no worker runs, or after its adoption, is stopped, grandchildren
// included.
func TestAdoptAndCancel(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	p.Server()
	c := p.Connect()
	worker := p.Worker("only", "--slots", "2", "--spool", "kept")
	const nested = `sh -c 'trap "" TERM; sleep 600 & wait' & echo started; wait`
	s := outlives(p, nested)
	s.Spec.Timeout.Stop = value.Duration(300 * time.Millisecond)
	first, second := p.SubmitAs(c, s), p.SubmitAs(c, s)
	for _, id := range []task.ID{first, second} {
		p.Until("it prints", func() bool { return printed(p, c, id) == "started" })
	}
	worker.Kill()
	p.Run("task", "cancel", string(first))
	worker = p.Worker("only", "--slots", "2", "--spool", "kept")
	p.Run("task", "cancel", string(second))
	for _, id := range []task.ID{first, second} {
		p.Await(c, id, task.Cancelled)
		if n := len(harness.Survivors("MILLRACE_TASK=" + string(id))); n > 0 {
			t.Errorf("%d processes are left of %s", n, id)
		}
	}
	wantNothingKept(p)
	p.Judge(c, map[task.ID]task.State{first: task.Cancelled, second: task.Cancelled})
	worker.Stop()
}

// Of two workers with one name at once, the later one adopts what the earlier one runs.
func TestAdoptFromALivingWorker(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	p.Server()
	c := p.Connect()
	earlier := p.Worker("only", "--spool", "kept")
	id := p.SubmitAs(c, outlives(p, counts))
	p.Until("it prints", func() bool { return linesOf(p, c, id) > 5 })
	p.Worker("only", "--spool", "kept")
	earlier.Wait()
	seen := linesOf(p, c, id)
	p.Until("it goes on printing", func() bool { return linesOf(p, c, id) > seen+5 })
	p.Write("go", "")
	wantCounted(p, c, id)
}

// A suspended worker cannot keep its process from being stopped in time, nor can a worker that is
// killed together with its shim.
func TestAdoptWithoutAnybodyElse(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 5*time.Second)
	p.Server()
	c := p.Connect()
	worker := p.Worker("only", "--spool", "kept")
	id := p.SubmitAs(c, outlives(p, `echo $MILLRACE_ATTEMPT; [ $MILLRACE_ATTEMPT != 1 ] || sleep 600`))
	p.Until("it prints", func() bool { return printed(p, c, id) == "1" })
	worker.Signal(syscall.SIGSTOP)
	p.Until("the process is gone", func() bool { return len(harness.Survivors("MILLRACE_TASK="+string(id))) == 0 })
	if n := harness.Count(p.History(c, id), events.AttemptStarted); n != 1 {
		t.Errorf("it was started %d times by then", n)
	}
	worker.Signal(syscall.SIGCONT)
	if ended := p.Await(c, id, task.Finished); ended.Attempt != 2 {
		t.Errorf("attempt %d", ended.Attempt)
	}
	p.Judge(c, map[task.ID]task.State{id: task.Finished})
}

// A program that prints very much, in both forms, has each line and each record stored once,
// however often its worker is killed meanwhile, and notices no restart.
func TestAdoptFlood(t *testing.T) {
	t.Parallel()
	rounds, kills := 60, 3
	if *harness.Long {
		rounds, kills = 600, 25
	}
	p := harness.New(t, 20*time.Second)
	p.Server()
	c := p.Connect()
	worker := p.Worker("only", "--spool", "kept")
	id := p.SubmitAs(c, outlives(p, fmt.Sprintf(`for i in $(seq %d); do seq $((i*1000-999)) $((i*1000)); sleep 0.05;
		seq $((i*100-99)) $((i*100)) | sed 's/.*/{"type":"INSERT_DATA","key":"'$MILLRACE_KEY'","payload":{"n":&}}/'; done; echo '{"type":"RESULT","key":"'$MILLRACE_KEY'","payload":{"ok":true}}'`, rounds)))
	for i := range kills {
		p.Until("it has printed more", func() bool { return linesOf(p, c, id) > i*1000*rounds/kills/2 })
		worker.Kill()
		worker = p.Worker("only", "--spool", "kept")
	}
	ended := p.Await(c, id, task.Finished)
	if ended.Attempt != 1 || string(ended.Result) != `{"ok":true}` {
		t.Errorf("attempt %d, result %s", ended.Attempt, ended.Result)
	}
	lines := strings.Split(p.Run("task", "logs", string(id)), "\n")
	for i, line := range lines {
		if want := fmt.Sprint(i + 1); line != want {
			t.Fatalf("line %d of %d is %q", i+1, len(lines), line)
		}
	}
	if len(lines) != 1000*rounds {
		t.Errorf("%d lines, want %d", len(lines), 1000*rounds)
	}
	records := strings.Split(p.Run("data", "export", string(id)), "\n")
	for i, r := range records {
		if want := fmt.Sprintf(`{"n":%d}`, i+1); r != want {
			t.Fatalf("record %d of %d is %q", i+1, len(records), r)
		}
	}
	if len(records) != 100*rounds {
		t.Errorf("%d records, want %d", len(records), 100*rounds)
	}
	wantNothingKept(p)
	p.Judge(c, map[task.ID]task.State{id: task.Finished})
}

// shims are the processes of a place that keep others beside their worker.
func shims(p *harness.Place) (pids []int) {
	for _, s := range harness.Survivors(p.Mark) {
		if strings.HasSuffix(strings.TrimSpace(s.Command), " shim") {
			pids = append(pids, s.PID)
		}
	}
	return pids
}

// The shim may be killed as well, with a worker running or without. Then nothing is left of the
// process, and the task says so. Its secret was never on the disk.
func TestAdoptWithoutShim(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	p.Server()
	c := p.Connect()
	worker := p.Worker("only", "--spool", "kept")
	p.Write("key", "abracadabra\n")
	for _, alone := range []bool{false, true} {
		s := outlives(p, `sh -c 'trap "" TERM; sleep 600 & wait' & echo "the word is $KEY"; wait`)
		s.Spec.Run.Secrets = map[string]job.Secret{"KEY": {File: p.Path("key")}}
		id := p.SubmitAs(c, s)
		p.Until("it prints", func() bool { return printed(p, c, id) == "the word is [secret]" })
		_ = filepath.WalkDir(p.Path("kept"), func(path string, d os.DirEntry, _ error) error {
			if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "abracadabra") {
				t.Errorf("%s holds the secret", path)
			}
			return nil
		})
		if alone {
			worker.Kill()
		}
		shims := shims(p)
		if len(shims) != 1 {
			t.Fatalf("there are the shims %v", shims)
		}
		if err := syscall.Kill(shims[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p.Until("the process is gone", func() bool { return len(harness.Survivors("MILLRACE_TASK="+string(id))) == 0 })
		if alone {
			worker = p.Worker("only", "--spool", "kept")
		}
		if ended := p.Await(c, id, task.Error); ended.Reason != value.Killed || !strings.Contains(ended.Message, "beside the worker was killed") {
			t.Errorf("it ended as %s: %s", ended.Reason, ended.Message)
		}
	}
	wantNothingKept(p)
	worker.Stop()
}

// The conversation with a program continues over a restart of its worker: its messages are
// answered, it is greeted once, and it hears of its end.
func TestAdoptConversation(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 20*time.Second)
	p.Server()
	c := p.Connect()
	worker := p.Worker("only", "--spool", "kept")
	s := outlives(p, "")
	s.Spec.Run.Shell = `trap "" TERM; exec 3<&0
		(n=0; while read -r line <&3; do case $line in
			*'"INIT"'*) n=$((n+1)); echo "greeted $n" ;;
			*'"ACK"'*) echo acknowledged ;;
			*'"CANCEL"'*) echo told; exit 0 ;; esac; done) &
		until [ -e go ]; do sleep 0.2; done
		echo '{"type":"CHECKPOINT","key":"'$MILLRACE_KEY'","id":"c1","payload":{"at":1}}'; wait`
	s.Spec.Run.Stdin = job.StdinOpen
	id := p.SubmitAs(c, s)
	p.Until("it is greeted", func() bool { return printed(p, c, id) == "greeted 1" })
	worker.Kill()
	p.Write("go", "") // it speaks while no worker listens
	worker = p.Worker("only", "--spool", "kept")
	p.Until("it is answered", func() bool { return printed(p, c, id) == "greeted 1\nacknowledged" })
	p.Run("task", "cancel", string(id))
	p.Await(c, id, task.Cancelled)
	if out := p.Run("task", "logs", string(id)); !strings.Contains(out, "told") {
		t.Errorf("it has printed %q", out)
	}
	wantNothingKept(p)
	worker.Stop()
}

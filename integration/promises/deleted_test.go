package promises

import (
	"os"
	"strings"
	"testing"
	"time"

	jetnames "millrace/events/jet/names"
	"millrace/integration/harness"
	"millrace/task"
)

// An operator deletes streams while processes run. The streams come back, no process needs a
// restart, and no task loses an attempt by it.
func TestDeletedStreams(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 3*time.Second)
	p.MayRepair("the log is deleted")
	dev := p.Dev("--name", "here")
	c := p.Connect()
	js := p.JetStream()
	p.Write("job.yaml", "name: j\nrun: \"true\"\n")
	deleted := []string{jetnames.TimerStream, jetnames.StateStream, "KV_" + jetnames.DefsBucket}
	if *harness.Long {
		deleted = append(deleted, jetnames.OutputStream, jetnames.DataStream, jetnames.FilesStream, "KV_"+jetnames.NodesBucket)
	}
	for _, stream := range deleted {
		said := `"stream":"` + stream + `"`
		if bucket, is := strings.CutPrefix(stream, "KV_"); is {
			said = `"bucket":"` + bucket + `"`
		}
		// Its second attempt begins, prints, stores a record and a checkpoint while the stream is
		// away.
		id := p.Submit(`while ! [ -e go ]; do sleep 0.2; done; echo "this is attempt $MILLRACE_ATTEMPT"; [ "$MILLRACE_ATTEMPT" = 2 ]`, "--retries", "1", "--dir", p.Dir)
		p.Until("the task runs", func() bool { return p.State(c, id).State == task.Running })
		if err := js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		p.Write("go", "")
		p.Until("the task ends", func() bool { return p.State(c, id).State.Terminal() })
		if got := p.State(c, id); got.State != task.Finished || got.Attempt != 2 {
			t.Errorf("without %s the task is %s after attempt %d: %s; want it finished by the second one", stream, got.State, got.Attempt, got.Message)
		}
		p.Until(stream+" is there again", func() bool { _, err := js.Stream(t.Context(), stream); return err == nil })
		p.Until("the server says so", func() bool { return strings.Contains(dev.Said.String(), said) })
		again := p.Run("run", "--follow", "--shell", "echo hello")
		if again != "hello" {
			t.Errorf("after %s came back a task prints %q", stream, again)
		}
		p.Run("job", "apply", "-f", "job.yaml")
		p.Run("run", "j", "--wait")
		if err := os.Remove(p.Path("go")); err != nil {
			t.Fatal(err)
		}
	}
	p.Run("schedule", "add", "s", "--every", "1s", "--", "true")
	p.Until("a tick gets its task", func() bool { return p.Run("task", "ls", "--schedule", "s", "--names") != "" })
	// A log that is lost between a tick's decision and the birth of its task would begin with that
	// birth.
	p.Run("schedule", "pause", "s")
	p.Until("all of its ticks have had their tasks", func() bool {
		ticks := strings.Count(p.Run("events", "tail", "--type", "schedule.admitted", "--from", "1", "--no-follow"), "schedule.admitted")
		return ticks == len(strings.Fields(p.Run("task", "ls", "--schedule", "s", "--limit", "1000", "--names")))
	})

	// The log itself: all tasks and definitions are lost; new ones run and are shown. Of the
	// definitions only their copies remain.
	lost := p.Submit("exec sleep 600")
	p.Until("the task runs", func() bool { return p.State(c, lost).State == task.Running })
	if err := js.DeleteStream(t.Context(), jetnames.LogStream); err != nil {
		t.Fatal(err)
	}
	p.Until("the log is there again", func() bool { _, err := js.Stream(t.Context(), jetnames.LogStream); return err == nil })
	if got := p.Run("run", "--follow", "--shell", "echo hello"); got != "hello" {
		t.Errorf("after the log came back a task prints %q", got)
	}
	p.Until("the read model has forgotten what was lost", func() bool {
		ids := p.Run("task", "ls", "--limit", "1000", "--names")
		return !strings.Contains(ids, string(lost)) && ids != ""
	})
	if got := p.Run("job", "ls", "--names") + p.Run("schedule", "ls", "--names"); got != "" {
		t.Errorf("after the log was lost there are %q", got)
	}
	kv, err := js.KeyValue(t.Context(), jetnames.DefsBucket)
	if err != nil {
		t.Fatal(err)
	}
	left, err := kv.Get(t.Context(), "job.j")
	if err != nil {
		t.Fatal(err)
	}
	p.Write("left.yaml", string(left.Value()))
	if got := p.Run("job", "apply", "-f", "left.yaml"); !strings.Contains(got, "revision 1") {
		t.Errorf("a job that remained is applied: %q", got)
	}
	p.Run("run", "j", "--wait")
	p.Until("the node is ready", func() bool { return strings.Contains(p.Run("node", "ls"), " ready ") })
	p.Until("no process of a lost task is left", func() bool { return !strings.Contains(p.Run("node", "ls"), " 1/") })
	if r := p.Try("verify"); r.Code == 2 {
		t.Errorf("verify after all that: exit code %d\n%s", r.Code, r.Out)
	}
	dev.Stop()
}

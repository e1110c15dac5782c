package integration

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/jet"
	"millrace/task"
)

// An operator deletes streams under everything that runs. They come back, nothing need be started
// again, and no attempt of a task is used up by it.
func TestDeletedStreams(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 3*time.Second)
	p.mayRepair("the log is deleted")
	dev := p.dev("--name", "here")
	c := p.connect()
	js, err := jetstream.New(p.dial())
	if err != nil {
		t.Fatal(err)
	}
	p.write("job.yaml", "name: j\nrun: \"true\"\n")
	deleted := []string{jet.TimerStream, jet.OutputStream, jet.DataStream, jet.StateStream, jet.FilesStream}
	for _, bucket := range []string{jet.DefsBucket, jet.NodesBucket} {
		deleted = append(deleted, "KV_"+bucket)
	}
	for _, stream := range deleted {
		// Its second attempt begins, prints, stores a record and a checkpoint while the stream is away.
		id := p.submit(`while ! [ -e go ]; do sleep 0.02; done; echo "this is attempt $MILLRACE_ATTEMPT"; [ "$MILLRACE_ATTEMPT" = 2 ]`, "--retries", "1", "--dir", p.dir)
		p.until("the task runs", func() bool { return p.state(c, id).State == task.Running })
		if err := js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		p.write("go", "")
		p.until("the task ends", func() bool { return p.state(c, id).State.Terminal() })
		if got := p.state(c, id); got.State != task.Finished || got.Attempt != 2 {
			t.Errorf("without %s the task is %s after attempt %d: %s; want it finished by the second one", stream, got.State, got.Attempt, got.Message)
		}
		p.until(stream+" is there again", func() bool { _, err := js.Stream(t.Context(), stream); return err == nil })
		p.until("the server says so", func() bool { return strings.Contains(dev.said.String(), `"stream":"`+stream+`"`) })
		again := p.run("run", "--follow", "--shell", "echo hello")
		if again != "hello" {
			t.Errorf("after %s came back a task prints %q", stream, again)
		}
		p.run("job", "apply", "-f", "job.yaml")
		p.run("run", "j", "--wait")
		if err := os.Remove(p.path("go")); err != nil {
			t.Fatal(err)
		}
	}
	p.run("schedule", "add", "s", "--every", "1s", "--", "true")
	p.until("a tick gets its task", func() bool { return p.run("task", "ls", "--schedule", "s", "--names") != "" })
	// A log that is lost between a tick's decision and the birth of its task would begin with that birth.
	p.run("schedule", "pause", "s")
	p.until("all of its ticks have had their tasks", func() bool {
		ticks := strings.Count(p.run("events", "tail", "--type", "schedule.admitted", "--from", "1", "--no-follow"), "schedule.admitted")
		return ticks == len(strings.Fields(p.run("task", "ls", "--schedule", "s", "--limit", "1000", "--names")))
	})

	// The log itself: all tasks and definitions are lost, and those that come run and are shown. What remains of
	// definitions is their copies.
	lost := p.submit("exec sleep 600")
	p.until("the task runs", func() bool { return p.state(c, lost).State == task.Running })
	if err := js.DeleteStream(t.Context(), jet.LogStream); err != nil {
		t.Fatal(err)
	}
	p.until("the log is there again", func() bool { _, err := js.Stream(t.Context(), jet.LogStream); return err == nil })
	if got := p.run("run", "--follow", "--shell", "echo hello"); got != "hello" {
		t.Errorf("after the log came back a task prints %q", got)
	}
	p.until("the read model has forgotten what was lost", func() bool {
		ids := p.run("task", "ls", "--limit", "1000", "--names")
		return !strings.Contains(ids, string(lost)) && ids != ""
	})
	if got := p.run("job", "ls", "--names") + p.run("schedule", "ls", "--names"); got != "" {
		t.Errorf("after the log was lost there are %q", got)
	}
	kv, err := js.KeyValue(t.Context(), jet.DefsBucket)
	if err != nil {
		t.Fatal(err)
	}
	left, err := kv.Get(t.Context(), "job.j")
	if err != nil {
		t.Fatal(err)
	}
	p.write("left.yaml", string(left.Value()))
	if got := p.run("job", "apply", "-f", "left.yaml"); !strings.Contains(got, "revision 1") {
		t.Errorf("a job that remained is applied: %q", got)
	}
	p.run("run", "j", "--wait")
	p.until("the node is ready", func() bool { return strings.Contains(p.run("node", "ls"), " ready ") })
	p.until("no process of a lost task is left", func() bool { return !strings.Contains(p.run("node", "ls"), " 1/") })
	if r := p.try("verify"); r.code == 2 {
		t.Errorf("verify after all that: exit code %d\n%s", r.code, r.out)
	}
	dev.stop()
}

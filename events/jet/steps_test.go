package jet

import (
	"bytes"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/internal/files"
	"millrace/task/value"
)

// A step's result that is too large for the log is read as it was stored, until the task is forgotten; files stay.
func TestStepResults(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id, other := newTask(), newTask()
	for _, size := range []int{0, 1, files.ChunkSize, 3*files.ChunkSize + 7} {
		result := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		digest := value.Digest(result)
		for range 2 {
			if err := s.SaveStep(within(t), id, digest, result); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.StepResult(within(t), id, digest, size); err != nil || !bytes.Equal(got, result) {
			t.Errorf("of %d bytes %d come back, %v", size, len(got), err)
		}
		if _, err := s.StepResult(within(t), id, digest, size+1); err == nil {
			t.Errorf("%d bytes pass for %d", size, size+1)
		}
		if _, err := s.StepResult(within(t), other, digest, size); (err == nil) != (size == 0) {
			t.Errorf("another task has the %d bytes, too: %v", size, err)
		}
	}
	text := []byte("of an earlier task")
	digest := value.Digest(text)
	if err := s.SaveStep(within(t), id, digest, text); err != nil {
		t.Fatal(err)
	}
	content := []byte("of a file")
	must(s.JS.PublishMsg(within(t), &nats.Msg{Subject: names.ChunkPrefix + string(files.DigestOf(content)), Data: content}))(t)
	stream := must(s.JS.Stream(within(t), names.FilesStream))(t)
	stored := must(stream.GetLastMsgForSubject(within(t), names.StepPrefix+string(id)+"."+digest+".0"))(t)
	if err := s.ForgetSteps(within(t), stored.Time); err != nil {
		t.Fatal(err)
	}
	if got, err := s.StepResult(within(t), id, digest, len(text)); err != nil || !bytes.Equal(got, text) {
		t.Errorf("what was stored at that time is gone: %q, %v", got, err)
	}
	if _, err := s.StepResult(within(t), id, value.Digest([]byte("0")), 1); err == nil {
		t.Error("what was stored before is still there")
	}
	for range 2 {
		if err := s.ForgetSteps(within(t), stored.Time.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.StepResult(within(t), id, digest, len(text)); err == nil {
		t.Error("what was stored last is still there")
	}
	if got, err := s.Get(within(t), files.DigestOf(content)); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the content of a file went with them: %q, %v", got, err)
	}
}

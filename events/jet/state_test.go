package jet

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/task"
	"millrace/task/output"
)

func TestStanding(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id := newTask()
	if l, err := s.Live(within(t), id); err != nil || l.Epoch != 0 {
		t.Errorf("nobody has said anything: %+v, %v", l, err)
	}
	said := make(chan output.Live, 10)
	stop, err := s.WatchLive(id, func(l output.Live) { said <- l })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for i := range 3 {
		if err := s.SaveLive(within(t), output.Live{Task: id, Epoch: 7, At: time.Now().UTC(), Message: fmt.Sprint("page ", i)}); err != nil {
			t.Fatal(err)
		}
		if l := <-said; l.Message != fmt.Sprint("page ", i) {
			t.Errorf("heard %+v", l)
		}
	}
	if l, err := s.Live(within(t), id); err != nil || l.Message != "page 2" {
		t.Errorf("it stands %+v, %v", l, err)
	}
	if all, err := s.LiveAll(within(t), []task.ID{newTask(), id}); err != nil || len(all) != 1 || all[id].Message != "page 2" {
		t.Errorf("of two tasks %+v, %v", all, err)
	}
	info, err := s.JS.Stream(within(t), names.StateStream)
	if err != nil || info.CachedInfo().State.Msgs != 1 {
		t.Errorf("%d messages are kept, %v", info.CachedInfo().State.Msgs, err)
	}
}

// TestCheckpoints: writers race, and the latest epoch wins in any order.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id := newTask()
	if c, err := s.Checkpoint(within(t), id); err != nil || c.Epoch != 0 {
		t.Errorf("there is none: %+v, %v", c, err)
	}
	var all sync.WaitGroup
	for epoch := uint64(1); epoch <= 8; epoch++ {
		all.Go(func() {
			err := s.SaveCheckpoint(within(t), output.Checkpoint{Task: id, Epoch: epoch, Value: json.RawMessage(fmt.Sprint(epoch))})
			if err != nil && !errors.Is(err, task.ErrFenced) {
				t.Errorf("epoch %d: %v", epoch, err)
			}
		})
	}
	all.Wait()
	if c, err := s.Checkpoint(within(t), id); err != nil || c.Epoch != 8 || string(c.Value) != "8" {
		t.Errorf("%+v, %v", c, err)
	}
	if err := s.SaveCheckpoint(within(t), output.Checkpoint{Task: id, Epoch: 7}); !errors.Is(err, task.ErrFenced) {
		t.Errorf("a fenced attempt: %v", err)
	}
	if err := s.SaveCheckpoint(within(t), output.Checkpoint{Task: id, Epoch: 8, Value: json.RawMessage(`"again"`)}); err != nil {
		t.Errorf("the same attempt again: %v", err)
	}
	// Rubbish on the subject is replaced.
	raw(t, s, names.CheckpointPrefix+string(id), nil, []byte("{"))
	if err := s.SaveCheckpoint(within(t), output.Checkpoint{Task: id, Epoch: 1, Value: json.RawMessage(`1`)}); err != nil {
		t.Errorf("over rubbish: %v", err)
	}
}

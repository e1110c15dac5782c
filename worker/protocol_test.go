package worker_test

import (
	"context"
	"fmt"
	"testing"

	"millrace/events"
	"millrace/task"
	"millrace/worker"
)

// unheard is a log whose first answer to a write is lost, and before which something
// happens that whoever waits for it does not know of.
type unheard struct {
	*events.Memory
	meanwhile func(seq uint64)
}

func (l *unheard) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	seq, err := l.Memory.Append(ctx, f, last)
	if then := l.meanwhile; then != nil && err == nil {
		l.meanwhile = nil
		then(seq)
		return 0, fmt.Errorf("%w: the connection was lost", events.ErrUnknown)
	}
	return seq, err
}

// Who learns late that its claim was stored runs the task only if it is still its own.
func TestClaimHeardLate(t *testing.T) {
	for _, tt := range []struct {
		name      string
		meanwhile []task.Command
		mine      bool
		then      task.State
	}{
		{name: "still its own", mine: true, then: task.Running},
		{name: "declared lost", meanwhile: []task.Command{task.Lose{Reason: "its node is offline"}}, then: task.Pending},
		{name: "declared lost, and run by another", meanwhile: []task.Command{task.Lose{Reason: "its node is offline"}, task.Claim{Node: "b", Session: "other"}}, then: task.Running},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				id := w.submit(task.Spec{})
				offers, err := w.log.Offers(w.Context(), []string{w.task(id).Route.Queue()})
				if err != nil {
					t.Fatal(err)
				}
				offer, err := offers.Next(w.Context())
				if err != nil {
					t.Fatal(err)
				}
				log := &unheard{Memory: w.log, meanwhile: func(seq uint64) {
					for _, c := range tt.meanwhile {
						now := w.task(id)
						switch e := c.(type) {
						case task.Lose:
							e.Epoch = seq
							c = e
						case task.Claim:
							e.Offer, e.After = now.Turn+1, now.Turn
							c = e
						}
						if _, _, err := w.rec.Do(w.Context(), now, c); err != nil {
							t.Fatal(err)
						}
					}
				}}
				rec := *w.rec
				rec.Log = log
				p := worker.Protocol{Recorder: &rec, Node: "a", Session: "s"}
				got, mine, err := p.Claim(w.Context(), offer)
				if err != nil || mine != tt.mine {
					t.Errorf("claimed: %v, %v, want %v", mine, err, tt.mine)
				}
				if got.State != tt.then {
					t.Errorf("it is taken for %s, want %s", got.State, tt.then)
				}
			})
		})
	}
}

package simulation

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/replay"
	look "millrace/projections/view"
	"millrace/task/node"
)

// Steps forward through a history and back show the same at each fact, and a breakpoint finds what
// a look at every fact finds.
func TestHistoriesReplay(t *testing.T) {
	each(max(min(*historiesFlag, 500)/20, *historiesFlag/100, 1), func(seed uint64) bool {
		h := play(t, seed, variant{})
		h.report(t)
		span := replay.NewSpan(1)
		for i := range h.records {
			if err := span.Add(&h.records[i], true); err != nil {
				t.Fatal(err)
			}
		}
		x, err := replay.New(span, replay.Config{
			Rules: look.Rules{Task: bounds, Node: node.Settings{TTL: 10 * time.Second}}, Margin: 10 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		do := func(command string) *replay.Answer {
			answer, err := x.Do(t.Context(), command)
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, command, err)
			}
			return answer
		}
		var frames []*replay.Frame
		for answer := do("s"); !answer.None; answer = do("s") {
			frames = append(frames, answer.Frame)
		}
		if len(frames) != len(h.records) {
			t.Errorf("seed %d: %d steps, of %d facts", seed, len(frames), len(h.records))
			return false
		}
		for _, f := range slices.Backward(frames[:len(frames)-1]) {
			if back := do("S"); back.None || !reflect.DeepEqual(back.Frame, f) {
				t.Errorf("seed %d, back to #%d: %+v; forward it was %+v", seed, f.Seq, back.Frame, f)
				return false
			}
		}
		want := 0
		for i := range h.records {
			if h.records[i].Unreadable() == "" && h.records[i].Fact.Type == events.AttemptStarted {
				want++
			}
		}
		for _, command := range []string{"b type attempt.started", `b type == "attempt.started"`} {
			if set := do(command).Set; set.Hits != want {
				t.Errorf("seed %d, %s: %d hits, want %d", seed, command, set.Hits, want)
			}
		}
		return !t.Failed()
	})
}

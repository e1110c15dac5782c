package metrics

import (
	"errors"
	"testing"
	"time"

	"millrace/task/node"
)

func TestBeats(t *testing.T) {
	b := NewBeats()
	beat := func(session string, at time.Duration) node.Heartbeat {
		return node.Heartbeat{Session: session, At: noon.Add(at)}
	}
	b.Look(map[node.ID]node.Heartbeat{"a": beat("s", 0), "b": beat("s", 0)}, noon.Add(time.Second))
	b.Look(map[node.ID]node.Heartbeat{"a": beat("s", 0), "b": beat("s", 2*time.Second)}, noon.Add(3*time.Second)) // only b has beaten
	b.Look(map[node.ID]node.Heartbeat{"a": beat("s", 5*time.Second)}, noon.Add(7*time.Second))                    // b is gone
	b.Look(map[node.ID]node.Heartbeat{"a": beat("new", 60*time.Second)}, noon.Add(61*time.Second))                // a was started again
	wants(t, b, `
node_heartbeat_age_max_seconds 1
node_heartbeat_gap_seconds 2 in 7s
node_heartbeats 1`)
}

func TestLoops(t *testing.T) {
	l := NewLoops("sweep", "presence")
	l.Looked("sweep", noon, noon.Add(time.Second), nil)
	l.Looked("sweep", noon, noon.Add(2*time.Second), errors.New("no"))
	l.Looked("unheard of", noon, noon, nil)
	if got := l.Last("sweep"); !got.Equal(noon.Add(time.Second)) {
		t.Errorf("it last looked at %v", got)
	}
	if got := l.Last("presence"); !got.IsZero() {
		t.Errorf("it looked at %v, before it began", got)
	}
	wants(t, l, `
scheduler_last_look_timestamp_seconds{sweep} 1.772625601e+09
scheduler_look_seconds{sweep} 2 in 3s
scheduler_looks_total{sweep,error} 1
scheduler_looks_total{sweep,ok} 1`)
}

func TestLag(t *testing.T) {
	l := &Lag{}
	wants(t, l, "")
	look := func(at time.Duration, end, reached uint64, behind time.Duration) {
		t.Helper()
		l.Look(end, reached, noon.Add(at))
		if got, _ := l.Behind(); got != behind {
			t.Errorf("after %v it is %v behind, want %v", at, got, behind)
		}
	}
	look(0, 10, 10, 0)
	look(time.Hour, 20, 10, 0) // came after the last look
	look(time.Hour+time.Second, 30, 15, time.Second)
	look(time.Hour+2*time.Second, 40, 20, time.Second) // 30 was there a second ago, 20 is folded
	wants(t, l, "read_model_lag_seconds 1\nread_model_lag_sequences 20\nread_model_sequence 20")
	look(time.Hour+3*time.Second, 40, 41, 0) // it went on between the two questions
	look(time.Hour+4*time.Second, 50, 41, 0)
	for i := range 3 * maxSightings {
		l.Look(uint64(51+i), 41, noon.Add(time.Hour+time.Duration(5+i)*time.Second))
	}
	if got, _ := l.Behind(); got != 3*maxSightings*time.Second {
		t.Errorf("it is %v behind", got)
	}
	if len(l.ends) > maxSightings {
		t.Errorf("it remembers %d ends", len(l.ends))
	}
	look(2*time.Hour, 5, 0, 0) // another log
}

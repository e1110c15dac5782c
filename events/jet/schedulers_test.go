package jet

import (
	"testing"

	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
)

// Schedulers on different connections hear each other's announcements, and nothing else.
func TestSchedulersMeet(t *testing.T) {
	t.Parallel()
	server := startServer(t, embed.Config{})
	one, other := openStore(t, connect(t, server.URL()), streams.Layout{}), openStore(t, connect(t, server.URL()), streams.Layout{})
	type word struct {
		name string
		here bool
	}
	heard := make(chan word, 10)
	leave, err := other.Meet(func(name string, here bool) { heard <- word{name, here} })
	if err != nil {
		t.Fatal(err)
	}
	if err := other.NC.Flush(); err != nil { // now the server knows of it
		t.Fatal(err)
	}
	for _, s := range []string{"", "+", "01JNA000000000000000000001", "+a.b", "+ "} {
		if err := one.NC.Publish(names.SchedulersWord, []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range []word{{"01JNA000000000000000000001", true}, {"01JNA000000000000000000001", false}} {
		if err := one.Say(w.name, w.here); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-heard:
			if got != w {
				t.Errorf("it hears %+v, want %+v", got, w)
			}
		case <-within(t).Done():
			t.Fatal("it hears nothing")
		}
	}
	leave()
	leave()
}

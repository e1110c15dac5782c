package jet

import (
	"github.com/nats-io/nats.go"

	"millrace/events/jet/names"
	"millrace/task/value"
)

// Meet calls heard with each announcement of a scheduler, this process's own included, until leave
// is called.
func (s *Store) Meet(heard func(name string, here bool)) (leave func(), err error) {
	return s.Listen(names.SchedulersWord, "listen to other schedulers", func(m *nats.Msg) {
		word := string(m.Data)
		if len(word) < 2 || word[0] != '+' && word[0] != '-' || value.ValidName("scheduler", word[1:]) != nil {
			return
		}
		heard(word[1:], word[0] == '+')
	})
}

// Say announces to all schedulers that one is here, or that it leaves. Delivery is not guaranteed.
func (s *Store) Say(name string, here bool) error {
	word := "-"
	if here {
		word = "+"
	}
	return s.NC.Publish(names.SchedulersWord, []byte(word+name))
}

package answers

import (
	"context"
	"fmt"
	"reflect"
)

// Command is how a person types a verb: package internal/cli/verb makes a command of the program of
// it. Its flags are the fields of the request that have the tag flag; the tag usage has their words,
// with the name of the value in braces. A field with the tag args takes the arguments after the first.
type Command struct {
	// Use is the command below millrace, with what it takes: "task cancel ID... | FILTERS". Its first
	// word says of which noun the arguments are names.
	Use     string
	Aliases []string
	// Short, Long and Example are its help.
	Short, Long, Example string
	// Reason is what --reason is if it is not given.
	Reason string
	// Many is which tasks it changes that filters choose. Default: the tasks must be named.
	Many *Many
	// Waits gives it --wait, for the end of the tasks.
	Waits bool
	// Line chooses what is printed of each changed thing. Default: the usual line of its noun.
	Line string
	// Asks is what the user must confirm, as in "remove"; "" for nothing.
	Asks string
	// Foresee finds out what would refuse a change, and says what would be done: --dry-run calls it
	// with what an argument names. Default: there is no such flag.
	Foresee func(s *Service, ctx context.Context, name string) error
}

// typed adds the command of an endpoint.
func (e *Endpoint) typed(c *Command) *Endpoint {
	e.Command = c
	return e
}

// NewRequest returns a pointer to an empty request.
func (e *Endpoint) NewRequest() any { return reflect.New(e.Request).Interface() }

// Check says what is wrong with a request of [Endpoint.NewRequest], and completes it.
func (e *Endpoint) Check(request any) error { return check(request) }

// Do checks a request of [Endpoint.NewRequest] and does what it asks for, as s: a process without a
// read model may do so with its own rights, for verbs that have a [Command].
func (e *Endpoint) Do(ctx context.Context, s *Service, request any) (any, error) {
	if err := e.Check(request); err != nil {
		return nil, err
	}
	return e.act(s, ctx, request)
}

// says tells the user of a command what was done to a thing; false if nobody listens, who then wants
// the thing itself for an answer.
func (s *Service) says(format string, args ...any) bool {
	if s.Say != nil {
		s.Say(fmt.Sprintf(format, args...))
	}
	return s.Say != nil
}

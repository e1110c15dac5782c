package connect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/events/jet/definitions"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/service/client"
	"millrace/task/node"
	"millrace/task/value"
)

// suggestTime bounds looking up the existing names.
const suggestTime = 2 * time.Second

// Suggest adds to the error about an unknown name which name may be meant. It returns any other
// error as it is.
func (a *App) Suggest(ctx context.Context, err error) error {
	absent, ok := errors.AsType[*definitions.Absent](err)
	if !ok || a.reached == nil || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, suggestTime)
	defer cancel()
	c, unreached := a.reached.Connect(ctx)
	if unreached != nil {
		return err
	}
	defer c.Close()
	return OrMeant(err, absent.Name, NamesOf(ctx, c, absent.Kind))
}

// Meant adds to the error about a node or a queue that there is not which one may be meant. It returns
// any other error as it is.
func (a *App) Meant(ctx context.Context, c *client.Client, err error, name string) error {
	for _, none := range []error{node.ErrUnknown, client.ErrNoQueue} {
		if errors.Is(err, none) {
			ctx, cancel := a.Asking(ctx)
			defer cancel()
			return OrMeant(err, name, NamesOf(ctx, c, none))
		}
	}
	return err
}

// OrMeant adds to an error about an unknown name the most similar of names.
func OrMeant(err error, name string, names []string) error {
	meant := value.Word(name, names)
	if meant == "" || meant == name { // it may exist now, and not then
		return err
	}
	f := *term.FaultOf(err)
	f.Err = fmt.Errorf("%w%s", err, settings.DidYouMean(meant))
	return &f
}

// words are those of each kind of things, by the error that there is none of a name.
var words = map[error]func(context.Context, *client.Client) []string{
	definitions.ErrNoJob: jobWords, definitions.ErrNoSchedule: scheduleWords, definitions.ErrNoCalendar: calendarWords,
	definitions.ErrNoToken: tokenWords, definitions.ErrNoBundle: bundleWords, node.ErrUnknown: nodeWords, client.ErrNoQueue: queueWords,
}

// NamesOf returns the existing names of a kind, as far as they can be read.
func NamesOf(ctx context.Context, c *client.Client, kind error) (names []string) {
	of := words[kind]
	if of == nil {
		return nil
	}
	for _, word := range of(ctx, c) {
		name, _, _ := strings.Cut(word, "\t")
		names = append(names, name)
	}
	return names
}

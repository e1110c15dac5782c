package request

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/events/jet/names"
)

// timePatience bounds how long [Link.Now] waits for the log's time.
const timePatience = time.Second

// Now returns the log's time, whatever the machine's clock says; see [Clock]. Every time that
// goes into the log, or is compared with the present, must come from here.
//
// The store learns the time when it is opened. Now asks again when half a minute has passed since
// the last answer, or when the machine's clock was set, and then waits at most a second for the
// answer. It asks nothing while the connection is down.
func (l *Link) Now() time.Time {
	l.Clock.Renew(l.askTime)
	return l.Clock.Now()
}

// OwnTime makes [Link.Now] go by the clock of this machine, for a user who may not ask for the log's.
func (l *Link) OwnTime() {
	l.askTime = func() (time.Time, error) { return time.Time{}, errAway }
}

var errAway = errors.New("the connection is away")

func (l *Link) timeSoon() (time.Time, error) {
	if !l.NC.IsConnected() {
		return time.Time{}, errAway
	}
	ctx, cancel := context.WithTimeout(context.Background(), timePatience)
	defer cancel()
	return l.Time(ctx)
}

// Time asks for the time of the server that keeps the log and fires its timers.
func (l *Link) Time(ctx context.Context) (time.Time, error) {
	stream, err := l.JS.Stream(ctx, names.LogStream)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the log for its time: %w", err)
	}
	return stream.CachedInfo().TimeStamp, nil
}

package answers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// Hook makes a task of a job from what a webhook has sent. The same delivery makes no second task for a
// day; "" is for one that nobody repeats. [ProblemOf] explains the error.
func (d *Desk) Hook(ctx context.Context, caller, name, delivery string, body []byte) (client.Receipt, error) {
	s, err := d.sit(caller, len(body))
	if err != nil {
		return client.Receipt{}, err
	}
	defer d.leave(s)
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, seatKey{}, s), patience)
	defer cancel()
	own := d.service.as(caller)
	of, err := own.Client.Job(ctx, name)
	if err != nil {
		return client.Receipt{}, d.blame(err)
	}
	made, err := hooked(&of.Job, delivery, body, d.service.Client.Now())
	if err != nil {
		return client.Receipt{}, badRequest{err}
	}
	r, err := own.Client.Submit(ctx, made)
	return r, d.blame(err)
}

// PayloadParam is the parameter that gets the whole body of a webhook, if the job declares it or none.
const PayloadParam = "payload"

// hookAgain is for how long a delivery makes no second task.
const hookAgain = 24 * time.Hour

// hooked returns the submission that follows from a webhook. Members of the body are the parameters that
// the job declares under their names.
func hooked(of *job.Job, delivery string, body []byte, now time.Time) (birth.Submission, error) {
	s := birth.Submission{Job: of.Name, Params: map[string]json.RawMessage{}}
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		body = []byte("{}")
	case !json.Valid(body):
		return s, fmt.Errorf("the body is not JSON")
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(body, &members) // another value than an object has none
	declares := func(name string) bool {
		for i := range of.Params.Declared {
			if of.Params.Declared[i].Name == name {
				return true
			}
		}
		return false
	}
	for name, is := range members {
		if declares(name) {
			s.Params[name] = is
		}
	}
	if len(of.Params.Declared) == 0 || declares(PayloadParam) {
		s.Params[PayloadParam] = body
	}
	if delivery == "" {
		return s, nil
	}
	sum := sha256.Sum256([]byte("hook/" + of.Name + "/" + delivery))
	if of.Lock().Key == "" {
		s.Unique = &job.Unique{Key: "hook:" + hex.EncodeToString(sum[:16]), While: value.StateNames[1:], TTL: value.Duration(hookAgain), OnConflict: job.ConflictReturn}
		return s, nil
	}
	// The job has a key of its own, so the id tells that it is the same: for the rest of the day.
	var id ulid.ULID
	if err := id.SetTime(ulid.Timestamp(now.UTC().Truncate(hookAgain))); err != nil {
		return s, err
	}
	copy(id[6:], sum[:])
	s.ID = task.ID(id.String())
	return s, nil
}

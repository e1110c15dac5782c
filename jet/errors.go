package jet

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
)

// Codes of the server's errors that mean something to us.
const (
	codeWrongSequence = 10071 // the chain has moved on
	codeNoMessage     = 10037 // nothing there
	codeNoLeader      = 10008 // a leader is being elected
	codeNoPeers       = 10005 // too few servers are there to hold a stream
	codeSameInFlight  = 10158 // the same message, by its id, is settling
	codeWriteInFlight = 10164 // another write of this subject is settling, maybe our own last one

	codeAccountLimit = 10002 // the account has no room
	codeResources    = 10023 // the server has no room
	codeMemoryLimit  = 10028 // likewise, of memory
	codeStorageLimit = 10047 // likewise, of files
	codeStoreFailed  = 10077 // the stream has no room, or the disk
	codeNoSuchStream = 10059
	codeOffline      = 10119 // the server that has the consumer is not there
	codeNoSequence   = 10043 // nothing to remove
	codeDeleteFailed = 10057 // it could not be removed, mostly because it is not there
)

// serverError is an error as JetStream answers it.
type serverError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *serverError) Error() string {
	return fmt.Sprintf("%s (JetStream error %d)", e.Description, e.ErrCode)
}

// Is makes [errors.Is] find the log's own words in the server's codes. Of a cluster, a server that has just come to
// lead the others may know of no stream for a moment, whatever streams there are.
func (e *serverError) Is(target error) bool {
	return target == events.ErrConflict && (e.ErrCode == codeWrongSequence || e.ErrCode == codeWriteInFlight) ||
		target == events.ErrNoStream && e.ErrCode == codeNoSuchStream
}

// says tells whether err is the server's error with a code.
func says(err error, code int) bool {
	e, ok := errors.AsType[*serverError](err)
	return ok && e.ErrCode == code
}

// answers tells whether the client library has the server's word in an error with one of some codes.
func answers(err error, codes ...jetstream.ErrorCode) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && slices.Contains(codes, e.ErrorCode)
}

// isOffline tells whether the only server which has a consumer is not there.
func isOffline(err error) bool { return answers(err, codeOffline) }

// isForming tells whether the cluster is not, or not yet, whole enough.
func isForming(err error) bool { return answers(err, codeNoPeers, codeNoLeader) }

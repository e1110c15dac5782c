package link

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
	CodeNoMessage     = 10037 // nothing there
	CodeNoLeader      = 10008 // a leader is being elected
	CodeNoPeers       = 10005 // too few servers are there to hold a stream
	CodeSameInFlight  = 10158 // the same message, by its id, is settling
	CodeWriteInFlight = 10164 // another write of this subject is settling, maybe our own last one

	CodeAccountLimit = 10002 // the account has no room
	CodeResources    = 10023 // the server has no room
	CodeMemoryLimit  = 10028 // likewise, of memory
	CodeStorageLimit = 10047 // likewise, of files
	CodeStoreFailed  = 10077 // the stream has no room, or the disk
	CodeNoSuchStream = 10059
	codeOffline      = 10119 // the server that has the consumer is not there
	CodeNoSequence   = 10043 // nothing to remove
	CodeDeleteFailed = 10057 // it could not be removed, mostly because it is not there
)

// ServerError is an error as JetStream answers it.
type ServerError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("%s (JetStream error %d)", e.Description, e.ErrCode)
}

// Is makes [errors.Is] find the log's own words in the server's codes. Of a cluster, a server that has just come to
// lead the others may know of no stream for a moment, whatever streams there are.
func (e *ServerError) Is(target error) bool {
	return target == events.ErrConflict && (e.ErrCode == codeWrongSequence || e.ErrCode == CodeWriteInFlight) ||
		target == events.ErrNoStream && e.ErrCode == CodeNoSuchStream
}

// Says tells whether err is the server's error with a code.
func Says(err error, code int) bool {
	e, ok := errors.AsType[*ServerError](err)
	return ok && e.ErrCode == code
}

// Answers tells whether the client library has the server's word in an error with one of some codes.
func Answers(err error, codes ...jetstream.ErrorCode) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && slices.Contains(codes, e.ErrorCode)
}

// IsOffline tells whether the only server which has a consumer is not there.
func IsOffline(err error) bool { return Answers(err, codeOffline) }

// IsForming tells whether the cluster is not, or not yet, whole enough.
func IsForming(err error) bool { return Answers(err, CodeNoPeers, CodeNoLeader) }

// Full tells whether an error of any call is the server's word that a stream, the account or the
// server has no room left, and what it said.
func Full(err error) (word string, full bool) {
	if e, ok := errors.AsType[*ServerError](err); ok {
		return e.Description, fullCode(e.ErrCode)
	}
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e.Description, fullCode(int(e.ErrorCode))
	}
	return "", false
}

func fullCode(code int) bool {
	switch code {
	case CodeAccountLimit, CodeStorageLimit, CodeMemoryLimit, CodeResources, CodeStoreFailed:
		return true
	}
	return false
}

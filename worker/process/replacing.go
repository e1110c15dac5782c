package process

import "sync/atomic"

// replacing tells once that the output of a process is not what its encoding says.
type replacing struct {
	encoding string
	said     atomic.Bool
}

// first tells whether it is the first call.
func (r *replacing) first() bool { return !r.said.Swap(true) }

// words say what was replaced, and what to do.
func (r *replacing) words() string {
	if r.encoding != "" {
		return "some of the output is not " + r.encoding + ", its run.encoding, and became U+FFFD"
	}
	return "some of the output is not UTF-8: each such byte, and each zero byte, became U+FFFD; run: {encoding: NAME} says which encoding it is, such as gbk, latin1 or utf-16"
}

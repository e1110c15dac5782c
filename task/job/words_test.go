package job

import (
	"slices"
	"testing"
	"time"

	"millrace/task/limit"
	"millrace/task/param"
	"millrace/task/value"
)

// The words of a tag are the constants of its field, in the order of messages.
func TestWordsAreConstants(t *testing.T) {
	for i, c := range []struct{ are, want []string }{
		{Disconnects, []string{DisconnectStop, DisconnectContinue}},
		{Restarts, []string{RestartStop, RestartAdopt}},
		{MessageRules, []string{MessagesOpen, MessagesRecords, MessagesReports, MessagesKeyed, MessagesOff}},
		{value.WordsOf[Run]("stdin"), []string{StdinNone, StdinOpen}},
		{value.WordsOf[Retry]("backoff"), []string{BackoffExponential, BackoffLinear, BackoffFixed}},
		{Classes, []string{value.Exit, value.Timeout, value.Memory, value.Killed, value.System, value.Network, value.Task, value.User}},
		{value.WordsOf[Retry]("not_on"), Classes},
		{PlaceModes, []string{PlaceAny, PlaceNodes, PlaceAll}},
		{Lates, []string{LateIgnore, LateInclude}},
		{NoNodes, []string{NoNodeExpire, NoNodeWait, NoNodeFallback, NoNodeFail}},
		{CatchUps, []string{CatchUpLast, CatchUpNone, CatchUpAll}},
		{Overlaps, []string{OverlapAllow, OverlapSkip, OverlapQueue, OverlapCancelOld, OverlapReplace}},
		{DSTs, []string{DSTOnce, DSTSkip, DSTTwice, DSTShift}},
		{FilesModes, []string{FilesCopy, FilesLink, FilesShared}},
		{ArtifactsWhen, []string{ArtifactsSuccess, ArtifactsFailure, ArtifactsAlways}},
		{SignalPolicies, []string{SignalExpire, SignalGoOn}},
		{NeedRules, []string{NeedAll, NeedAny, NeedNone}},
		{Whens, []string{WhenSuccess, WhenFailure, WhenCancel, WhenTrouble, WhenEnd}},
		{value.WordsOf[Unique]("while"), value.StateNames[1:]},
		{Conflicts, []string{ConflictFail, ConflictReturn}},
		{limit.OnLimits, []string{limit.Wait, limit.Skip, limit.CancelOld, limit.Fail}},
		{limit.OnOpens, []string{limit.OnOpenHold, limit.OnOpenFail}},
		{limit.Pers, []string{limit.PerDay, limit.PerWeek, limit.PerMonth}},
		{param.Types, []string{param.String, param.Integer, param.Number, param.Boolean, param.Array, param.Object}},
	} {
		if !slices.Equal(c.are, c.want) {
			t.Errorf("row %d: the words are %q, want %q", i, c.are, c.want)
		}
	}
}

// A notice is told in words: to whom, of what, and how often again.
func TestNotifyWords(t *testing.T) {
	for _, c := range []struct {
		is   Notify
		want string
	}{
		{Notify{To: []string{"ops"}}, "ops"},
		{Notify{To: []string{"ops", "night"}, On: []string{"failure"}}, "ops, night of failure"},
		{Notify{To: []string{"ops"}, On: []string{"waiting"}, Remind: value.Duration(4 * time.Hour)}, "ops of waiting, again every 4h0m0s"},
	} {
		if got := c.is.Words(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

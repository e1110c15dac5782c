package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"millrace/events"
	"millrace/events/jet/request"
)

// A process says once that the log takes no messages, and once that it does again; a lost
// connection is not taken for that.
func TestSaysThatTheLogIsMute(t *testing.T) {
	var out strings.Builder
	connected := true
	say := sayMute(slog.New(slog.NewTextHandler(&out, nil)), func() bool { return connected })
	leaderless := fmt.Errorf("the log cannot be written: %w", request.ErrElecting)
	full := fmt.Errorf("%w: no space", events.ErrMute)
	for _, look := range []struct {
		wrong     error
		connected bool
		says      string
	}{
		{nil, true, ""},
		{full, false, ""},
		{errors.New("no connection"), true, ""},
		{full, true, "level=ERROR"},
		{full, true, ""},
		{errors.New("no connection"), true, ""},
		{full, false, ""},
		{nil, true, "level=INFO"},
		{nil, true, ""},
		{leaderless, true, "level=ERROR"},
		{full, true, ""},
		{nil, true, "level=INFO"},
	} {
		out.Reset()
		connected = look.connected
		say(look.wrong)
		if got := out.String(); (look.says == "") != (got == "") || !strings.Contains(got, look.says) {
			t.Errorf("after %v, connected %v, it says %q, want %q", look.wrong, look.connected, got, look.says)
		}
	}
}

package replay_test

import (
	"os"
	"testing"

	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Thrifty(m).Run()) }

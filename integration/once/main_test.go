package once

import (
	"os"
	"testing"

	"millrace/integration/place"
)

func TestMain(m *testing.M) {
	if with := os.Getenv(wrongTimeEnv); with != "" {
		os.Exit(wrongTool(with, os.Args[1:]))
	}
	os.Exit(place.Main(m))
}

package rights

import (
	"flag"
	"millrace/integration/place"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write what pages show of the program's output anew")

func TestMain(m *testing.M) {
	if standsIn() {
		os.Exit(standInMain(os.Args[1:]))
	}
	os.Exit(place.Main(m))
}

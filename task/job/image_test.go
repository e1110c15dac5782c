package job

import (
	"strings"
	"testing"

	"millrace/task/placement"
)

func TestParseMount(t *testing.T) {
	for text, want := range map[string]Mount{
		"/a:/b": {From: "/a", To: "/b"}, "/a/b:/c:ro": {From: "/a/b", To: "/c", ReadOnly: true}, "/:/host:ro": {From: "/", To: "/host", ReadOnly: true},
		"": {}, "/a": {}, "a:/b": {}, "/a:b": {}, "/a:/": {}, "/a:/b:rw": {}, "/a:/b:ro:ro": {}, "/a,b:/c": {}, "/a:/../c": {}, "/a:/b/": {}, `/a":/b`: {}, "/a\n:/b": {},
	} {
		if got, err := ParseMount(text); err == nil && got != want || (err == nil) != (want != Mount{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// An image's task is born where only nodes with a runtime pull, and falls back to no other place.
func TestImagesAskForARuntime(t *testing.T) {
	for means, run := range map[string]Run{LabelImages: {Image: "a"}, LabelRuntime + "podman": {Image: "a", Runtime: "podman"}} {
		s := &Spec{Run: &run}
		want := placement.Selector{{Key: means, Op: placement.OpExists}}
		if got := s.Room(); s.Means() != means || len(got) != 1 || got[0].String() != want[0].String() {
			t.Errorf("%s: %s, %v", means, s.Means(), got)
		}
		if route := s.HomeRoute("default", 5); route != placement.SelectorRoute("default", want, 5) {
			t.Errorf("%s: it is born on %v", means, route)
		}
		if !IsMeans(means) || IsMeans("runs/other") {
			t.Errorf("%s is the node's own word, and runs/other is not", means)
		}
	}
	if got := MeansWords(LabelRuntime+"docker") + ", " + HasMeans(LabelImages) + ", " + MeansWords(LabelCommands); got != "runs no images by docker, runs images, runs no commands" {
		t.Error(got)
	}
}

func TestNamesOfImagesHaveAnEnd(t *testing.T) {
	for _, c := range []struct {
		run  Run
		fits bool
	}{
		{Run{Image: strings.Repeat("a", maxImage)}, true},
		{Run{Image: strings.Repeat("a", maxImage+1)}, false},
		{Run{Image: "a", Network: strings.Repeat("n", maxNetwork)}, true},
		{Run{Image: "a", Network: strings.Repeat("n", maxNetwork+1)}, false},
		{Run{Image: "a b"}, false},
		{Run{Image: "-a"}, false},
	} {
		if err := c.run.validateImage(); (err == nil) != c.fits {
			t.Errorf("an image of %d bytes on a network of %d: %v", len(c.run.Image), len(c.run.Network), err)
		}
	}
}

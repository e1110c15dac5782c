package connect

import "testing"

func TestPlausibleID(t *testing.T) {
	for _, good := range []string{"01JD6Z8V3M0QK4T7W2X9Y5ABCD", "01jd6z8v3m0qk4t7w2x9y5abcd", "9Y5ABCD", "01jd6z"} {
		if err := PlausibleID(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "12345", "hello world", "91JD6Z8V3M0QK4T7W2X9Y5ABCD", "01JD6Z8V3M0QK4T7W2X9Y5ABCDE", "ILLUSORY", "*******"} {
		if err := PlausibleID(bad); err == nil {
			t.Errorf("%q passes for an id", bad)
		}
	}
}

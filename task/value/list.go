package value

import (
	"fmt"
	"strings"
)

// List names several things in a text, "day, week, month"; "none" if there are none.
func List[T any](all []T) string {
	if len(all) == 0 {
		return "none"
	}
	parts := make([]string, len(all))
	for i, one := range all {
		parts[i] = fmt.Sprint(one)
	}
	return strings.Join(parts, ", ")
}

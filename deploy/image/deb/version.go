package deb

import (
	"regexp"
	"strings"
	"time"
)

// notInVersions are the characters that a version of Debian's may not have in its upstream part.
var notInVersions = regexp.MustCompile(`[^A-Za-z0-9.+~]+`)

// Version is what Debian compares: v1.2.0 becomes 1.2.0, and what `git describe` counts beyond a tag follows it. A commit without
// any tag comes before all releases, in the order of its day.
func Version(described string, day time.Time) string {
	version := notInVersions.ReplaceAllString(strings.TrimPrefix(described, "v"), "+")
	if !strings.HasPrefix(described, "v") {
		return "0~" + day.UTC().Format("20060102") + "." + version
	}
	return version
}

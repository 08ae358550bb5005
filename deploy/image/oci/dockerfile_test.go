package oci

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/deploy/image/rootfs"
)

// The Dockerfile says what the image is made of by `make image`.
func TestDockerfileSaysTheSame(t *testing.T) {
	instructions := dockerfile(t, "../Dockerfile")
	config := configOf(Release{Version: "$VERSION", Revision: "$REVISION"})
	created := "org.opencontainers.image.created"
	require.Equal(t, time.Time{}.Format(time.RFC3339), config.Labels[created])
	config.Labels[created] = "$CREATED"

	labels := map[string]string{}
	for _, label := range instructions["LABEL"] {
		key, value, _ := strings.Cut(label, "=")
		labels[key] = strings.Trim(value, `"`)
	}
	require.Equal(t, config.Labels, labels)
	require.Equal(t, []string{`"` + config.User + `"`}, instructions["USER"])
	require.Equal(t, []string{`["` + strings.Join(config.Entrypoint, `", "`) + `"]`}, instructions["ENTRYPOINT"])
	require.Equal(t, []string{`"` + config.WorkingDir + `"`}, instructions["WORKDIR"])
	require.Equal(t, config.Env, []string{strings.ReplaceAll(instructions["ENV"][0], `"`, "")})

	named, err := rootfs.Names("../packages")
	require.NoError(t, err)
	slices.Sort(named)
	require.Equal(t, named, installed(t, instructions["RUN"][0]))
	require.Contains(t, instructions["RUN"][0], "--uid 9800 --gid 9800")
	require.Contains(t, instructions["FROM"][0], "bookworm")
}

// dockerfile is the arguments of a Dockerfile's instructions, by their names; continued lines are joined.
func dockerfile(t *testing.T, file string) map[string][]string {
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	found := map[string][]string{}
	for line := range strings.Lines(strings.ReplaceAll(string(content), "\\\n", " ")) {
		name, arguments, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "" && !strings.HasPrefix(name, "#") {
			found[name] = append(found[name], arguments)
		}
	}
	return found
}

func installed(t *testing.T, command string) []string {
	match := regexp.MustCompile(`--no-install-recommends ([^&]+)&&`).FindStringSubmatch(command)
	require.NotNil(t, match)
	return strings.Fields(match[1])
}

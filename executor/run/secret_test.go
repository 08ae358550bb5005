package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestS63_ASecretReachesACommandThroughItsStandardInputAlone(t *testing.T) {
	dir := t.TempDir()
	r := withTool(t, "tool", "cat >"+dir+"/stdin; cat /proc/$$/cmdline /proc/$$/environ >"+dir+"/seen; echo done")
	secret := Secret("canary\npassphrase \x00 with any bytes")
	out, err := r.Run(t.Context(), Command{Tool: "tool", Args: []string{"--key-file", "-"}, Stdin: secret})
	require.NoError(t, err)
	require.Equal(t, "done\n", string(out))
	given, err := os.ReadFile(filepath.Join(dir, "stdin"))
	require.NoError(t, err)
	require.Equal(t, []byte(secret), given, "every byte of it")
	seen, err := os.ReadFile(filepath.Join(dir, "seen"))
	require.NoError(t, err)
	require.NotContains(t, string(seen), "canary")
}

func TestACommandWithoutStdinReadsNothing(t *testing.T) {
	out, err := withTool(t, "tool", "cat; echo end").Run(t.Context(), Command{Tool: "tool"})
	require.NoError(t, err)
	require.Equal(t, "end\n", string(out))
}

func TestS63_AnErrorHasNoPieceOfTheSecret(t *testing.T) {
	for name, tc := range map[string]struct{ script, want string }{
		"the whole":            {"read x; echo no key in $x >&2; exit 2", "tool ended with code 2: [secret]"},
		"its end":              {"read x; echo ${x#can} >&2; exit 2", "tool ended with code 2: [secret]"},
		"something else":       {"echo No key available >&2; exit 2", "tool ended with code 2: No key available"},
		"it was not even read": {"exit 1", "tool ended with code 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := withTool(t, "tool", tc.script).Run(t.Context(), Command{Tool: "tool", Stdin: Secret("canary-passphrase\n")})
			require.EqualError(t, err, tc.want)
			var failed *Error
			require.True(t, errors.As(err, &failed))
		})
	}
}

func TestS63_ASecretIsNotPrinted(t *testing.T) {
	c := Command{Tool: "tool", Stdin: Secret("canary")}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		require.NotContains(t, fmt.Sprintf(verb, c), "canary")
		require.NotContains(t, fmt.Sprintf(verb, c), "63616e617279")
		require.Equal(t, "[secret]", fmt.Sprintf(verb, c.Stdin))
	}
	text, err := json.Marshal(c.Stdin)
	require.NoError(t, err)
	require.Equal(t, `"[secret]"`, string(text))
}

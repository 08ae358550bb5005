package controller_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/csi/controller"
)

// documented are the rows of the table of parameters that is for operators.
func documented(t *testing.T) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/OPERATIONS.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Parameters\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|"); strings.HasPrefix(line, "| `") {
			rows = append(rows, cells)
		}
	}
	return rows
}

// Users learn of every parameter from a document, and the document promises nothing
// that is not served.
func TestEveryParameterIsDocumented(t *testing.T) {
	w := newEnv(t, hostIn("n1", "z1"), hostIn("n2", "z2"))
	w.createVolumeGroup(t, "shop")
	var keys, mutable []string
	for _, row := range documented(t) {
		key := strings.Trim(row[0], " `")
		keys = append(keys, key)
		example := strings.Trim(row[2], " `")
		if strings.TrimSpace(row[1]) == "both" {
			mutable = append(mutable, key)
			id := w.create(t, "of "+key)
			_, err := w.ControllerModifyVolume(t.Context(), &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: mapOf(key, example)})
			require.NoError(t, err)
		}
		pairs := []string{key, example}
		switch key {
		case "protocol":
			pairs = append(pairs, "replicas", "2")
		case "encryptionDiscards":
			pairs = append(pairs, "encrypted", "true")
		}
		_, err := w.CreateVolume(t.Context(), createRequest("with "+key, withParameters(pairs...)))
		if key == "protocol" || key == "replicas" || key == "sites" {
			requireCode(t, codes.ResourceExhausted, err) // they are known, and these hosts hold no replicas
			continue
		}
		require.NoError(t, err, key)
	}
	require.ElementsMatch(t, controller.ParameterKeys, keys)
	require.ElementsMatch(t, controller.MutableKeys, mutable)
	_, err := w.CreateVolume(t.Context(), createRequest("v", withParameters("raid", "6")))
	requireCode(t, codes.InvalidArgument, err)
	require.False(t, slices.ContainsFunc(keys, func(key string) bool { return !strings.Contains(err.Error(), key) }), err)
}

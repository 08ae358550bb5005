package pagetest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func pages(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return append(paths, filepath.Join(root, "README.md"))
}

// Every block is commands, a manifest, values of the chart or a picture, and is as its program takes it.
func TestEveryBlockIsReal(t *testing.T) {
	called := map[string]bool{}
	for _, path := range pages(t) {
		blocks, err := Blocks(path)
		require.NoError(t, err)
		for _, b := range blocks {
			t.Run(b.String(), func(t *testing.T) {
				commands, err := Check(b)
				require.NoError(t, err)
				for _, words := range commands {
					called[words[0]] = true
				}
			})
		}
	}
	for program := range programs {
		require.True(t, called[program], "no page calls %s any more: take it out of the table", program)
	}
}

// What stands for a host's commands in Kubernetes is real too. X is any command of holdfast's.
func TestRunbooksOnKubernetesAreReal(t *testing.T) {
	blocks, err := Spans(filepath.Join(root, "deploy", "RUNBOOKS.md"), "On Kubernetes")
	require.NoError(t, err)
	for _, b := range blocks {
		b.Text = strings.ReplaceAll(b.Text, "kubectl holdfast X", "kubectl holdfast status")
		_, err := Check(b)
		require.NoError(t, err, b)
	}
	_, err = Spans(filepath.Join(root, "deploy", "RUNBOOKS.md"), "On Mars")
	require.ErrorContains(t, err, "no section")
}

func TestWhatIsNotRealIsFound(t *testing.T) {
	for script, says := range map[string]string{
		"holdfast status --colour":                                      "unknown flag",
		"kubectl holdfast nodes lots n1":                                "there is no command",
		"kubectl holdfast nodes lost":                                   "it takes",
		"kubectl get pods --colour":                                     "unknown flag",
		"kubectl grab pods":                                             "grab",
		"kubectl get gadgets":                                           "gadgets",
		"kubectl -n holdfast rollout status statefulset/holdfast":       "the chart makes no",
		"kubectl rollout status statefulset/holdfast-controller":        "namespace",
		"kubectl -n holdfast logs daemonset/holdfast-node -c main":      "no container main",
		"kubectl -n holdfast get pods -l a=b":                           "labels",
		"kubectl get pvc x -o jsonpath='{.status.volume}'":              "no field",
		"kubectl patch pvc x --type=merge -p '{\"spec\":{\"a\":1}}'":    "unknown field",
		"kubectl exec x -- holdfast recover --colour":                   "unknown flag",
		"helm install holdfast deploy/chart -n holdfast --set site.a=b": "site",
		"helm install holdfast deploy/chart --set site=A":               "namespace",
		"helm install holdfast deploy/chart -n holdfast --sett a=b":     "unknown flag",
		"helm install holdfast -n holdfast":                             "arguments",
		"make cake":                                                     "there is no such target",
		"holdfast mend|tend VOLUME ...":                                 "mend",
		"holdfast nodes lost ... --colour":                              "no flag",
		"kubectl holdfast why $WHOEVER":                                 "WHOEVER",
		"curl example.com":                                              "does not know",
		"echo $(date)":                                                  "CmdSubst",
	} {
		t.Run(script, func(t *testing.T) {
			_, err := Check(Block{Language: "sh", Text: script + "\n"})
			require.ErrorContains(t, err, says)
		})
	}
	for text, says := range map[string]string{
		"site: {a: b}\n": "site",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {container: []}\n": "unknown field",
		"apiVersion: v1\nkind: Pot\n": "Pot",
	} {
		_, err := Check(Block{Language: "yaml", Text: text})
		require.ErrorContains(t, err, says)
	}
	_, err := Check(Block{Language: "text"})
	require.Error(t, err)
}

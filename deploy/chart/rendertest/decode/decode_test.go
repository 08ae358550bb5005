package decode

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// manifests are all that the chart was rendered to.
var manifests = []string{"../testdata/golden/*.yaml", "../../../kubernetes/*.yaml"}

// newer marks the manifests for the newest version of Kubernetes.
const newer = "-1.37.yaml"

// ofNewer says whether this build has the types of that version.
func ofNewer() bool {
	_, is := reflect.TypeFor[storagev1.CSIDriverSpec]().FieldByName("PreventPodSchedulingIfMissing")
	return is
}

func TestEveryObjectDecodesStrictly(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	decoded := 0
	for _, path := range paths(t) {
		if strings.HasSuffix(path, newer) && !ofNewer() {
			continue
		}
		for _, document := range documents(t, path) {
			_, err := Strict(scheme, document)
			switch {
			case runtime.IsNotRegisteredError(err): // of a CRD: the module that renders has those types
			case err != nil:
				t.Errorf("%s: %v in\n%s", path, err, document)
			default:
				decoded++
			}
		}
	}
	if decoded < 100 {
		t.Errorf("%d objects were decoded: where are the manifests?", decoded)
	}
}

// The manifests of the newest version have something that the types of the one before refuse: else this test would not tell
// the two versions apart.
func TestFieldsOfTheNewestVersionAreRefusedBefore(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	refused := false
	for _, path := range paths(t) {
		if !strings.HasSuffix(path, newer) {
			continue
		}
		for _, document := range documents(t, path) {
			_, err := Strict(scheme, document)
			refused = refused || err != nil && strings.Contains(err.Error(), "preventPodSchedulingIfMissing")
		}
	}
	if refused == ofNewer() {
		t.Errorf("refused: %t, types of the newest version: %t", refused, ofNewer())
	}
}

func TestMistakesAreFound(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	const good = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  clusterIP: None\n"
	if _, err := Strict(scheme, []byte(good)); err != nil {
		t.Errorf("a good object: %v", err)
	}
	for name, document := range map[string]string{
		"an unknown field": good + "  clusterIp: None\n",
		"a field twice":    good + "  clusterIP: None\n",
		"another type":     good + "  ports: 7\n",
	} {
		if _, err := Strict(scheme, []byte(document)); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
}

func paths(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range manifests {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		out = append(out, found...)
	}
	return out
}

func documents(t *testing.T, path string) [][]byte {
	t.Helper()
	manifest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Documents(manifest)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

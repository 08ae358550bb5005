package pagetest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"helm.sh/helm/v3/pkg/strvals"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-storage/holdfast/deploy/chart/rendertest"
	"github.com/holdfast-storage/holdfast/deploy/chart/rendertest/decode"
)

// newest is the version that the chart is rendered for, and apis what a cluster with everything has beside Kubernetes' own.
const newest = "1.37.2"

var apis = []string{"snapshot.storage.k8s.io/v1", "groupsnapshot.storage.k8s.io/v1", "monitoring.coreos.com/v1"}

// chartModule is the folder in which rendertest finds the chart, seen from this one.
const chartModule = root + "/deploy/chart/rendertest"

// objectsOf are the objects that both versions of Helm make of values: those of kinds of Kubernetes, decoded strictly.
func objectsOf(values map[string]any) (objects []runtime.Object, err error) {
	files, err := renderBoth(rendertest.Release{KubeVersion: newest, APIs: apis, Values: values})
	if err != nil {
		return nil, err
	}
	scheme, err := decode.Scheme()
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		more, err := decoded(scheme, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, more...)
	}
	return objects, nil
}

// renderBoth renders as Helm 3 and as Helm 4 do.
func renderBoth(r rendertest.Release) (files map[string]string, err error) {
	home, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if err := os.Chdir(chartModule); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Chdir(home)) }()
	if _, err := rendertest.Helm4(r); err != nil {
		return nil, fmt.Errorf("as Helm 4: %w", err)
	}
	return rendertest.Helm3(r)
}

func decoded(scheme *runtime.Scheme, manifest string) (objects []runtime.Object, err error) {
	documents, err := decode.Documents([]byte(manifest))
	if err != nil {
		return nil, err
	}
	for _, document := range documents {
		object, err := decode.Strict(scheme, document)
		if runtime.IsNotRegisteredError(err) {
			continue // of a CRD: rendertest has its type
		}
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// checkYAML holds objects against the types of Kubernetes, and anything else against the schema of the chart's values and its templates.
func checkYAML(b Block) error {
	if !isManifest(b.Text) {
		values, err := valuesOf(b.Text)
		if err != nil {
			return err
		}
		_, err = objectsOf(values)
		return err
	}
	scheme, err := decode.Scheme()
	if err != nil {
		return err
	}
	documents, err := decode.Documents([]byte(b.Text))
	if err != nil {
		return err
	}
	for _, document := range documents {
		if _, err := decode.Strict(scheme, document); err != nil {
			return err
		}
	}
	return nil
}

func isManifest(text string) bool { return strings.Contains("\n"+text, "\napiVersion:") }

func valuesOf(text string) (values map[string]any, err error) {
	return values, yaml.UnmarshalStrict([]byte(text), &values)
}

// helmVerbs are the verbs of helm, and how many arguments each takes.
var helmVerbs = map[string]int{"install": 2, "upgrade": 2, "template": 2, "uninstall": 1, "rollback": 1, "history": 1, "package": 1}

// checkHelm parses a call of helm, and renders what it would install.
func checkHelm(b Block, w Words) error {
	flags := pflag.NewFlagSet("helm", pflag.ContinueOnError)
	namespace := flags.StringP("namespace", "n", "", "")
	files := flags.StringSliceP("values", "f", nil, "")
	sets := flags.StringArray("set", nil, "")
	if err := flags.Parse(w[1:]); err != nil {
		return err
	}
	args := flags.Args()
	count, known := 0, false
	if len(args) > 0 {
		count, known = helmVerbs[args[0]]
	}
	switch {
	case !known:
		return fmt.Errorf("%s: the test does not know this verb of helm", w)
	case len(args) != 1+count:
		return fmt.Errorf("%s: it takes %d arguments", w, count)
	case args[0] == "package":
		return isChart(args[1])
	case *namespace != "holdfast" || args[1] != "holdfast":
		return fmt.Errorf("%s: the release is holdfast, in the namespace holdfast", w)
	case count < 2:
		return nil
	}
	return errors.Join(isChart(args[2]), render(b, *files, *sets))
}

func isChart(path string) error {
	if path != "deploy/chart" {
		return fmt.Errorf("%s is not the chart", path)
	}
	return nil
}

// render renders what the files and the settings say; the one file is the last block of values on the page, where there is one.
func render(b Block, files, sets []string) error {
	values := map[string]any{}
	if len(files) > 0 && !slices.Equal(files, []string{"values.yaml"}) {
		return fmt.Errorf("values in %v: pages have them in values.yaml", files)
	}
	if len(files) > 0 && b.Values != "" {
		var err error
		if values, err = valuesOf(b.Values); err != nil {
			return err
		}
	}
	for _, set := range sets {
		if err := strvals.ParseInto(set, values); err != nil {
			return err
		}
	}
	_, err := objectsOf(values)
	return err
}

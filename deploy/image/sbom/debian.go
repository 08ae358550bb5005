package sbom

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// debianPackages reads dpkg's status: paragraphs of fields.
func debianPackages(status string) ([]*v2_3.Package, error) {
	found := map[string]*v2_3.Package{}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(status), "\n\n") {
		fields := fieldsOf(paragraph)
		name, version, arch := fields["Package"], fields["Version"], fields["Architecture"]
		if name == "" || version == "" || arch == "" {
			return nil, fmt.Errorf("dpkg's list has a package without name, version or architecture: %.60q", paragraph)
		}
		p := newPackage("deb-"+name, name, version, fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=debian-12", name, url.QueryEscape(version), arch))
		p.PackageSourceInfo = "built from the source package " + sourceOf(fields)
		found[name] = p
	}
	return inOrder(found), nil
}

func sourceOf(fields map[string]string) string {
	if source := fields["Source"]; source != "" {
		return source
	}
	return fields["Package"]
}

func fieldsOf(paragraph string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(paragraph) {
		if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields
}

func inOrder(packages map[string]*v2_3.Package) []*v2_3.Package {
	var all []*v2_3.Package
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		all = append(all, packages[name])
	}
	return all
}

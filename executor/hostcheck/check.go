package hostcheck

import (
	"cmp"
	"slices"
)

// rules are what is checked, of a node or of both roles.
var (
	commonRules = []func(*Facts) []Finding{checkDataDir, checkDisk, checkSyncs, checkPorts, checkSpaces, checkCerts, checkClock, checkLimits, checkReached}
	nodeRules   = []func(*Facts) []Finding{
		checkRoot, checkNamespaces, checkModules, checkDRBD, checkTools, checkUdev, checkLVM, checkMultipath, checkCgroup, checkThinPools, checkPools, checkRemembered,
	}
)

// Check says what the facts mean, worst first and otherwise in a fixed order. It depends on nothing else: what ends
// is compared with the time at which the facts were gathered.
func Check(f *Facts) (all []Finding) {
	rules := commonRules
	if f.Role == Node {
		rules = slices.Concat(nodeRules, commonRules)
	}
	for _, rule := range rules {
		all = append(all, rule(f)...)
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return all
}

// rank orders severities, the worst first.
func (s Severity) rank() int { return slices.Index([]Severity{Error, Unknown, Warn, OK}, s) }

// notGathered is the finding where a fact is missing.
func notGathered(what string) []Finding {
	return []Finding{unknown("run the newest build of the cluster on this host", "%s is not known: the build on this host does not look at it", what)}
}

// checkRemembered reminds of what a restore ended: the host alone goes on with it.
func checkRemembered(f *Facts) []Finding {
	if f.Remembered == 0 {
		return nil
	}
	return []Finding{warn("look at the plan of `holdfast adopt`, which takes them in", "it remembers %d revocations of certificates that the cluster's log does not know, as they are newer than the backup", f.Remembered)}
}

package quota

// bundleGrants is how many grants make a bundle: smaller parts go together, and their offers are
// placed together.
const bundleGrants = 16

// Bundled groups parts with few grants.
func Bundled(parts []*Sent) (all [][]*Sent) {
	var small []*Sent
	grants := 0
	for _, p := range parts {
		if len(p.Grants) >= bundleGrants {
			all = append(all, []*Sent{p})
			continue
		}
		small = append(small, p)
		if grants += len(p.Grants); grants >= bundleGrants {
			all, small, grants = append(all, small), nil, 0
		}
	}
	if len(small) > 0 {
		all = append(all, small)
	}
	return all
}

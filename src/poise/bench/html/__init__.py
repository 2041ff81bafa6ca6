"""A result as one page that needs nothing else: charts are drawn as SVG here."""

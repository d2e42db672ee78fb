"""Claims, points, measurements, and the record, whose format only this one knows."""
